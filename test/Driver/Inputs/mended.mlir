// trainc 0.1.0: phase 'graph' crashed (Segmentation fault)
// replay: trainc --replay mended.mlir, or trainc-opt --run-reproducer mended.mlir
// reproducer: {"arguments":["m.onnx","--inference","--target=cpu"],"phase":"graph"}
module {
  func.func @forward(%x: tensor<4xf32> {train.role = "input", train.name = "x"}) -> (tensor<4xf32> {train.role = "output", train.name = "y"}) {
    %0 = train.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32> loc("one")
    %1 = train.add %0, %0 : tensor<4xf32> loc("two")
    %2 = train.mul %x, %1 : tensor<4xf32> loc("three")
    return %2 : tensor<4xf32>
  }
}

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(func.func(fold-constants))",
      disable_threading: true,
      verify_each: true
    }
  }
#-}
