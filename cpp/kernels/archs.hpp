// The instruction sets the kernels are compiled for, best first. The last one is taken unasked, so
// it must be the baseline of the build.
#pragma once

#include <xsimd/xsimd.hpp>

namespace spector::kernels {

#ifdef SPECTOR_X86
using Archs = xsimd::arch_list<xsimd::avx512bw, xsimd::fma3<xsimd::avx2>, xsimd::sse2>;
#else
using Archs = xsimd::arch_list<xsimd::default_arch>;
#endif

}  // namespace spector::kernels
