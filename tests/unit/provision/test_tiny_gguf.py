from pathlib import Path

from gguf import GGMLQuantizationType, GGUFReader

from skippy_site.provision.tiny_gguf import write_tiny_gguf


def test_the_model_is_a_gguf_with_every_kind_of_kernel_in_it(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "tiny.gguf")
    reader = GGUFReader(tmp_path / "tiny.gguf")
    assert reader.fields["general.architecture"].contents() == "llama"
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    assert len(tokens) == reader.fields["llama.vocab_size"].contents() == 260
    kinds = {tensor.tensor_type for tensor in reader.tensors}
    kernels = (
        GGMLQuantizationType.Q8_0,
        GGMLQuantizationType.Q4_0,
        GGMLQuantizationType.Q4_1,
        GGMLQuantizationType.F16,
        GGMLQuantizationType.BF16,
    )
    assert kinds == {GGMLQuantizationType.F32, *kernels}
    shapes = {tensor.name: tuple(tensor.shape) for tensor in reader.tensors}
    assert shapes["blk.0.ffn_down.weight"] == (128, 64)


def test_the_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "one.gguf")
    write_tiny_gguf(tmp_path / "two.gguf")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
