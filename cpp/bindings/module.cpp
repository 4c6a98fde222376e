#include "bindings/register.hpp"
#include "kernels/dispatch.hpp"

// "gil_not_used" is a promise: every object bound here is immutable or has its own lock.
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The C++ core of spector.";
  spector::kernels::set_isa_from_environment();
  spector::bindings::register_errors(module);
  spector::bindings::register_base(module);
  spector::bindings::register_lexical(module);
  spector::bindings::register_signals(module);
  spector::bindings::register_hebbian(module);
  spector::bindings::register_hyper_graph(module);
  spector::bindings::register_temporal_chain(module);
  spector::bindings::register_type_registry(module);
  spector::bindings::register_entity_directory(module);
  spector::bindings::register_name_matcher(module);
  spector::bindings::register_tags(module);
  spector::bindings::register_expansion(module);
  spector::bindings::register_records(module);
}
