// What each file of the bindings adds to the module; module.cpp gives the order.
#pragma once

#include <pybind11/pybind11.h>

namespace spector::bindings {

void register_errors(pybind11::module_& module);
void register_base(pybind11::module_& module);
void register_lexical(pybind11::module_& module);
void register_signals(pybind11::module_& module);
void register_hebbian(pybind11::module_& module);
void register_hyper_graph(pybind11::module_& module);
void register_temporal_chain(pybind11::module_& module);
void register_type_registry(pybind11::module_& module);
void register_entity_directory(pybind11::module_& module);
void register_name_matcher(pybind11::module_& module);
void register_tags(pybind11::module_& module);
void register_expansion(pybind11::module_& module);
void register_records(pybind11::module_& module);

}  // namespace spector::bindings
