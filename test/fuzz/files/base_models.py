# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sound models to start from, by name: the fuzz targets' seeds, more of the same text, and small exports."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from make_corpus import END, EXPORTS, MAKE_ONNX, MODELS, X  # noqa: E402

TOKENS = "input input_ids i64[batch,seq]\ninput attention_mask i64[batch,seq]\ninput labels i64[batch,seq]\noutput loss f32[]\noutput logits f32[batch,seq,11]\ninit table f32[11,8] = 0.25\ninit head f32[8,11] = 0.125\n"
MORE = {
    "tokens": "opset 20\n" + TOKENS + """init q f32[8,8] = 0.1
init k f32[8,8] = 0.2
init v f32[8,8] = 0.3
init one f32[] = 1.0
init low f32[] = -10000.0
init axes i64[2] = 1 2
node Gather(table, input_ids) -> e
node MatMul(e, q) -> qe name=layer.q_proj
node MatMul(e, k) -> ke name=layer.k_proj
node MatMul(e, v) -> ve name=layer.v_proj
node Transpose(ke) -> kt perm=[0,2,1]
node MatMul(qe, kt) -> s
node Cast(attention_mask) -> mf to=1
node Sub(one, mf) -> inverted
node Mul(inverted, low) -> bias0
node Unsqueeze(bias0, axis1) -> bias
init axis1 i64[1] = 1
node Add(s, bias) -> masked
node Softmax(masked) -> p axis=-1
node MatMul(p, ve) -> a
node Add(a, e) -> r
node MatMul(r, head) -> logits
node Transpose(logits) -> lt perm=[0,2,1]
node SoftmaxCrossEntropyLoss(lt, labels) -> loss ignore_index=-100
""",
    "scan": X + "graph body\n  input s f32[4]\n  input xi f32[4]\n  node Add(s, xi) -> so\n  node MatMul(so, w) -> y\n  output so f32[4]\n  output y f32[4]\ninit s0 f32[4] = 0.0\nnode Scan(s0, w) -> last, ys num_scan_inputs=1 body=graph:body\nnode MatMul(x, ys) -> r" + END,
    "lora": "meta trainable = p.lora_A.weight\\np.lora_B.weight\n" + X + "init p.lora_A.weight f32[2,4] = 0.5\ninit p.lora_B.weight f32[4,2] = 0.0\ninit scale f32[] = 2.0\nnode Transpose(p.lora_A.weight) -> at\nnode Transpose(p.lora_B.weight) -> bt\nnode MatMul(x, w) -> h name=p\nnode MatMul(x, at) -> u\nnode MatMul(u, bt) -> v\nnode Mul(v, scale) -> y\nnode Add(h, y) -> r" + END,
    "quantized": "opset 21\n" + X + "init wq i8[4,4] = 1\ninit s f32[] = 0.1\ninit z i8[] = 0\nnode DequantizeLinear(wq, s, z) -> wd\nnode MatMul(x, wd) -> h\nnode QuantizeLinear(h, s, z) -> hq\nnode DequantizeLinear(hq, s, z) -> hd\nnode MatMul(hd, w) -> r" + END,
    "matmulnbits": "opset 20\nopset com.microsoft 1\n" + X + "init b u8[4,1,8] = 17\ninit s f32[4] = 0.5\nnode com.microsoft::MatMulNBits(x, b, s) -> h K=4 N=4 bits=4 block_size=16\nnode MatMul(h, w) -> r" + END,
    "sequence": X + "node MatMul(x, w) -> h\nnode SequenceConstruct(h, x) -> q\nnode SequenceInsert(q, h) -> q2\nnode SequenceAt(q2, zero) -> a\ninit zero i64[] = 0\nnode ConcatFromSequence(q2) -> r axis=0" + END,
    "functions": "opset 18\nopset my 1\n" + X + "function my F(a, b) -> c alpha\n  node MatMul(a, b) -> d\n  node Elu(d) -> c alpha=@alpha\nfunction my G(a, b) -> c\n  node my::F(a, b) -> d alpha=0.25\n  node my::F(d, b) -> c alpha=0.5\nnode my::G(x, w) -> g\nnode my::G(g, w) -> r" + END,
    "nested": X + "init c bool[] = 1\ngraph deep\n  node MatMul(x, w) -> a\n  output a f32\ngraph shallow\n  node Neg(x) -> n\n  output n f32\nnode If(c) -> m then_branch=graph:deep else_branch=graph:shallow\nnode Add(m, n0) -> r\nnode If(c) -> n0 then_branch=graph:deep else_branch=graph:shallow" + END,
    "rnn": "input x f32[5,batch,3]\ninit w f32[1,4,3] = 0.1\ninit r f32[1,4,4] = 0.1\noutput loss f32[]\nnode RNN(x, w, r) -> y, h hidden_size=4\nnode ReduceMean(y) -> loss keepdims=0\n",
    "indices": X + "init k i64[1] = 2\nnode MatMul(x, w) -> h\nnode TopK(h, k) -> t, ti\nnode GatherElements(h, ti) -> g axis=1\nnode ArgMax(h) -> am axis=1 keepdims=1\nnode Cast(am) -> af to=1\nnode Add(g, af) -> r" + END,
    "conv-transpose": "input x f32[batch,2,5,5]\ninit k f32[2,3,3,3] = 0.1\ninit g f32[3] = 1.0\noutput loss f32[]\nnode ConvTranspose(x, k) -> c strides=[2,2] pads=[1,1,1,1] output_padding=[1,1]\nnode InstanceNormalization(c, g, g) -> n\nnode AveragePool(n) -> r kernel_shape=[2,2] ceil_mode=1" + END,
    "random": X + "init p f32[] = 0.5\ninit on bool[] = 1\nnode RandomNormalLike(x) -> n\nnode Add(x, n) -> y\nnode MatMul(y, w) -> h\nnode Dropout(h, p, on) -> r" + END,
}
# Exports from PyTorch that are small.
EXPORTED = ["mlp", "mlp-dropout", "mlp-regression", "mlp-joint", "masked-attention", "loss-primitive", "pools", "convs", "sce-none", "nll-sum"]


def load(more=(), exported=EXPORTED):
    """[(name, bytes)]; `more`: (name, text) pairs."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        text, model = pathlib.Path(scratch) / "m.txt", pathlib.Path(scratch) / "m.onnx"
        for group, prefix in ((MODELS, ""), (MORE, ""), (EXPORTS, "export-"), (dict(more), "")):
            for name, lines in group.items():
                text.write_text(lines)
                subprocess.run([sys.executable, MAKE_ONNX, text, model], check=True)
                found.append((prefix + name, model.read_bytes()))
    exports = HERE.parent.parent / "e2e/models"
    return found + [(name, (exports / f"{name}.onnx").read_bytes()) for name in exported]
