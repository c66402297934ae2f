// trainc 0.1.0: phase 'graph' failed
// replay: trainc --replay refused.mlir, or trainc-opt --run-reproducer refused.mlir
// reproducer: {"arguments":["m.onnx","--lr","0.1","--target=cpu"],"phase":"graph"}
module {
  func.func @forward(%x: tensor<4xf32> {train.role = "input", train.name = "x"}) -> (tensor<4xf32> {train.role = "output", train.name = "y"}) {
    return %x : tensor<4xf32>
  }
}

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(autodiff)",
      disable_threading: true,
      verify_each: true
    }
  }
#-}
