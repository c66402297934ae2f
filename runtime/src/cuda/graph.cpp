// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cuda/graph.h"

#include <cstdlib>
#include <cstring>

namespace trainrt::cuda {

Status instantiate(const Context &context, CUgraph captured, const char *what,
                   CUgraphExec &executable) {
  const Driver &driver = context.driver();
  if (const char *form = std::getenv("TRAINRT_GRAPHS"); form && std::strcmp(form, "plain") == 0)
    return driver.check(driver.cuGraphInstantiate(&executable, captured, 0), what);
  CUgraph graph = nullptr;
  TRAINRT_TRY(driver.check(driver.cuGraphCreate(&graph, 0), what));
  CUgraphConditionalHandle always = 0;
  CUresult result = driver.cuGraphConditionalHandleCreate(&always, graph, context.get(), 1,
                                                          CU_GRAPH_COND_ASSIGN_DEFAULT);
  CUgraphNodeParams conditional = {};
  conditional.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  conditional.conditional = {always, CU_GRAPH_COND_TYPE_IF, 1, nullptr, context.get()};
  CUgraphNode node = nullptr;
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &conditional);
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphAddChildGraphNode(&node, conditional.conditional.phGraph_out[0], nullptr,
                                             0, captured);
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphInstantiate(&executable, graph, 0);
  driver.cuGraphDestroy(graph);
  return driver.check(result, what);
}

} // namespace trainrt::cuda
