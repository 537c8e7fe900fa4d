"""Stand-in for simpler_setup.torch_interop, which is there since May 2026."""

from simpler import VINTAGE

if VINTAGE < "2026-05":
    raise ImportError("no such module in April 2026")

if VINTAGE >= "2026-08":

    def make_tensor_arg(worker, tensor):
        assert tensor.is_contiguous() and tensor.dim() >= 1 and str(tensor.dtype) not in ("torch.bool", "torch.uint64")
        return worker.make_tensor_arg(tensor, shapes=tuple(tensor.shape), dtype=0)

else:

    def make_tensor_arg(tensor):
        assert tensor.is_contiguous() and tensor.dim() >= 1
        return tensor
