// Graphs of the host_build_graph runtime since 2026-07: a function that submits tasks, called once for each submission.
//
// There the graph is recorded once for each key and instantiated later; here its tasks are simply submitted again,
// which gives the same tasks and dependencies.
#ifndef PYPTO_GRAPH_API_H
#define PYPTO_GRAPH_API_H

#include "pypto/submit.h"

struct GraphKey {
    uint64_t hash;
};

namespace pypto {

constexpr GraphKey graph_key(const char *text) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; *text; ++text)
        hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
    return {hash};
}

} // namespace pypto

#define GRAPH_KEY(text) (::pypto::graph_key(text))

template <typename Function, typename Args, typename... Config>
auto rt_submit_graph(Function &&function, Args &args, const Config &...config)
    -> std::enable_if_t<std::is_base_of_v<pypto::TaskArgsBase, Args>, decltype(function(args, config...))> {
    return function(args, config...);
}
template <typename Function, typename Args, typename... Config>
auto rt_submit_graph(GraphKey, Function &&function, Args &args, const Config &...config)
    -> std::enable_if_t<std::is_base_of_v<pypto::TaskArgsBase, Args>, decltype(function(args, config...))> {
    return function(args, config...);
}

#endif
