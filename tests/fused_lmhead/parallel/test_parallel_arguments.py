"""Bad groups, ranges and layouts are named, with their offending values. No processes."""

from __future__ import annotations

import inspect

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fused_lmhead import fused_linear_logprob
from fused_lmhead.parallel import (
    FusedLinearChunkedDistributedLogprob,
    FusedLinearLogprobTriton,
    from_parallel_hidden_to_logprobs,
    from_parallel_hidden_to_logprobs_packed_sequences,
    linear_cross_entropy,
    vocab_parallel_logprob,
)
from fused_lmhead.parallel.layout_checks import check_padded, segment_lengths

HIDDEN, WEIGHT = torch.randn(1, 8, 4), torch.randn(6, 4)
TARGET = torch.zeros(1, 8, dtype=torch.long)
CU = torch.tensor([0, 4, 8])

PADDED = {
    "hidden": HIDDEN,
    "lm_head_weight": WEIGHT,
    "target": TARGET,
    "vocab_start_index": 0,
    "vocab_end_index": 6,
    "tp_group": None,
}
PACKED = {
    **{k: v for k, v in PADDED.items() if k != "tp_group"},
    "cu_seqlens_padded": CU,
    "unpacked_seqlen": 4,
    "group": None,
}

CALLING = {"return_entropy": False, "entropy_requires_grad": False}
SIGNATURES = {
    from_parallel_hidden_to_logprobs: {
        **dict.fromkeys(["hidden", "lm_head_weight", "target"], inspect.Parameter.empty),
        **dict.fromkeys(["vocab_start_index", "vocab_end_index"], inspect.Parameter.empty),
        "tp_group": inspect.Parameter.empty,
        "inference_only": False,
        "cp_group": None,
        "chunk_size": None,
        "temperature": 1.0,
        "fused_backend": "torch",
        **CALLING,
    },
    from_parallel_hidden_to_logprobs_packed_sequences: {
        **dict.fromkeys(["hidden", "lm_head_weight", "target"], inspect.Parameter.empty),
        **dict.fromkeys(["cu_seqlens_padded", "unpacked_seqlen"], inspect.Parameter.empty),
        **dict.fromkeys(["vocab_start_index", "vocab_end_index"], inspect.Parameter.empty),
        "group": inspect.Parameter.empty,
        "inference_only": False,
        "cp_group": None,
        "chunk_size": None,
        "attention_mask": None,
        "sub_seq_lengths": None,
        "temperature": 1.0,
        "fused_backend": "torch",
        **CALLING,
    },
    FusedLinearChunkedDistributedLogprob.apply: {
        **dict.fromkeys(["hidden", "weight", "target"], inspect.Parameter.empty),
        **dict.fromkeys(["vocab_start_index", "vocab_end_index"], inspect.Parameter.empty),
        **dict.fromkeys(["chunk_size", "tp_group"], inspect.Parameter.empty),
        "inference_only": False,
        **CALLING,
        "temperature": 1.0,
    },
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_trainers_find_the_signatures_that_they_call(function):
    """Names, their order and defaults: what swapping an import relies on."""
    found = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    assert list(found.items()) == list(SIGNATURES[function].items())


def test_the_low_level_drop_ins_are_autograd_functions():
    for function in (FusedLinearChunkedDistributedLogprob, FusedLinearLogprobTriton):
        assert issubclass(function, torch.autograd.Function)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tp_group": object()}, "vocabulary-parallel group is given, but .* not initialised"),
        ({"cp_group": object()}, "cp_group is given, but torch.distributed is not initialised"),
        ({"vocab_end_index": 7}, "vocab_start_index 0 to vocab_end_index 7 are 7 ids.*6 rows"),
        ({"vocab_start_index": -1, "vocab_end_index": 5}, "must not be negative, got -1"),
        ({"fused_backend": "cuda"}, "fused_backend must be 'torch' or 'triton', got 'cuda'"),
        ({"fused_backend": ["torch"]}, "fused_backend must be 'torch' or 'triton', got \\["),
        ({"entropy_requires_grad": True}, "needs return_entropy=True"),
        ({"chunk_size": 0}, "chunk_size must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be from"),
        ({"hidden": HIDDEN[0]}, r"hidden must be \[B, S/CP, H\].*\(8, 4\)"),
        ({"target": TARGET[0]}, r"target \[B, S\].*target \(8,\)"),
        ({"hidden": HIDDEN[:, :7]}, "8 tokens a row, but hidden's 7 on each of CP = 1"),
    ],
    ids=str,
)
def test_a_padded_batch_that_does_not_fit_is_named(change, words: str):
    with pytest.raises(ValueError, match=words):
        from_parallel_hidden_to_logprobs(**{**PADDED, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden": HIDDEN[:, :6]}, "target has 8 tokens, but hidden's 6"),
        ({"hidden": HIDDEN.view(2, 4, 4)}, r"hidden must be \[1, T/CP, H\]"),
        ({"cu_seqlens_padded": CU.view(1, 3)}, r"must be \[segments \+ 1\], got shape \(1, 3\)"),
        ({"cu_seqlens_padded": CU.float()}, "must be int32 or int64, got torch.float32"),
        ({"cu_seqlens_padded": CU[:2]}, "from 0 to target's 8 tokens, got 0 to 4"),
        ({"cu_seqlens_padded": CU + 1}, "from 0 to target's 8 tokens, got 1 to 9"),
        ({"cu_seqlens_padded": torch.tensor([0, 9, 8])}, "decreases at segment 1"),
        ({"unpacked_seqlen": 0}, "unpacked_seqlen must be at least 1, got 0"),
        ({"attention_mask": torch.ones(2, 5)}, r"attention_mask \(2, 5\) must be .*\(2, 4\)"),
        ({"sub_seq_lengths": [[4, 4], [4]]}, "describes 3 segments, cu_seqlens_padded 2"),
        ({"sub_seq_lengths": [[4, 5]]}, "segment 1 has 5 true tokens, but 4 with padding"),
        ({"sub_seq_lengths": [[-1, 4]]}, "segment 0 has -1 true tokens"),
    ],
    ids=str,
)
def test_packed_sequences_that_do_not_fit_are_named(change, words: str):
    with pytest.raises(ValueError, match=words):
        from_parallel_hidden_to_logprobs_packed_sequences(**{**PACKED, **change})


def test_more_true_tokens_in_the_mask_than_were_packed_are_named():
    change = {
        "cu_seqlens_padded": torch.tensor([0, 2, 8]),
        "attention_mask": torch.ones(2, 6, dtype=torch.bool),
        "unpacked_seqlen": 6,
    }
    with pytest.raises(ValueError, match="segment 0 has 6 true tokens, but 2 with padding"):
        from_parallel_hidden_to_logprobs_packed_sequences(**{**PACKED, **change})


def test_lengths_that_cp_cannot_share_are_named():
    offsets = torch.tensor([0, 8, 14])
    with pytest.raises(ValueError, match=r"segment 1 has 6 tokens .* not a multiple of 2·CP = 4"):
        segment_lengths(offsets, offsets.diff(), 14, cp_size=2)
    with pytest.raises(ValueError, match=r"pad sequences to a multiple of 2·CP = 4"):
        check_padded(torch.zeros(1, 3, 4), torch.zeros(1, 5), cp_size=2)


def test_other_bad_arguments_are_named():
    with pytest.raises(ValueError, match="reduction must be 'none', 'sum' or 'mean', got 'max'"):
        linear_cross_entropy(HIDDEN, WEIGHT, TARGET, 1.0, "max")
    with pytest.raises(ValueError, match="'reference' has no shards"):
        vocab_parallel_logprob(
            HIDDEN,
            WEIGHT,
            TARGET,
            vocab_start_index=0,
            vocab_end_index=6,
            group=None,
            backend="reference",
        )
    with pytest.raises(TypeError, match="vocab_end_index must be an integer, got '6'"):
        from_parallel_hidden_to_logprobs(**{**PADDED, "vocab_end_index": "6"})
    with pytest.raises(TypeError, match=r"target must be a torch\.Tensor, got NoneType"):
        from_parallel_hidden_to_logprobs(**{**PADDED, "target": None})
    for name in ("cu_seqlens_padded", "attention_mask"):
        with pytest.raises(TypeError, match=rf"{name} must be a torch\.Tensor, got list"):
            from_parallel_hidden_to_logprobs_packed_sequences(**{**PACKED, name: [0, 4, 8]})
    with pytest.raises(TypeError, match="weight must be float32, float16 or bfloat16"):
        from_parallel_hidden_to_logprobs(**{**PADDED, "lm_head_weight": WEIGHT.double()})
    with pytest.raises(TypeError, match=r"weight must be a torch\.Tensor, got NoneType"):
        linear_cross_entropy(HIDDEN, None, TARGET)
    with pytest.raises(ValueError, match=r"weight must be \[V, H\] and not empty, got shape \(\)"):
        linear_cross_entropy(HIDDEN, torch.tensor(1.0), TARGET)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unpacked_seqlen": 4.0}, "unpacked_seqlen must be an integer, got 4.0"),
        ({"unpacked_seqlen": None}, "unpacked_seqlen must be an integer, got None"),
        ({"sub_seq_lengths": [4, 4]}, r"list of integers for each row, got \[4, 4\]"),
        ({"sub_seq_lengths": [[3.7], [4]]}, r"list of integers for each row, got \[\[3.7\]"),
        ({"sub_seq_lengths": [None, [4]]}, "list of integers for each row, got"),
    ],
    ids=str,
)
def test_lengths_that_are_no_integers_are_named(change, words: str):
    with pytest.raises(TypeError, match=words):
        from_parallel_hidden_to_logprobs_packed_sequences(**{**PACKED, **change})


@pytest.mark.parametrize(
    "lengths",
    [torch.tensor([[4], [3]]), [torch.tensor([4]), torch.tensor([3])], ((4,), (3,))],
    ids=["tensor", "tensors", "tuples"],
)
def test_sub_sequence_lengths_may_be_any_integers(lengths):
    call = from_parallel_hidden_to_logprobs_packed_sequences
    expected = call(**{**PACKED, "sub_seq_lengths": [[4], [3]]})
    assert torch.equal(call(**{**PACKED, "sub_seq_lengths": lengths}), expected)


SHARD = {"vocab_start_index": 10, "vocab_end_index": 16, "group": None}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("backward_budget", 0, "backward_budget must be at least 1, got 0"),
        ("keep_logits_budget", -1, "keep_logits_budget must be at least 0, got -1"),
    ],
)
def test_budgets_that_do_not_fit_are_named(option: str, value: int, words: str):
    with pytest.raises(ValueError, match=words):
        vocab_parallel_logprob(HIDDEN, WEIGHT, TARGET, **SHARD, **{option: value})


@pytest.mark.parametrize("index", [-(2**63), -(2**63) + 9, 2**63 - 1])
def test_an_ignored_id_may_be_any_that_fits(index: int):
    """The shard's start is subtracted from it, which must not leave 64 bits."""
    hidden = HIDDEN.clone().requires_grad_()
    target = torch.full((1, 8), index)
    target[0, 0] = 12
    logprob = vocab_parallel_logprob(hidden, WEIGHT, target, **SHARD, ignore_index=index)
    assert (logprob[0, 1:] == 0).all()
    logprob.sum().backward()
    assert (hidden.grad[0, 1:] == 0).all()
    assert (hidden.grad[0, 0] != 0).any()


def test_torch_func_is_refused_by_name():
    def loss(hidden: torch.Tensor) -> torch.Tensor:
        return from_parallel_hidden_to_logprobs(**{**PADDED, "hidden": hidden}).sum()

    with pytest.raises(RuntimeError, match=r"works under no torch\.func transform"):
        torch.func.grad(loss)(HIDDEN)


def test_without_groups_the_shard_is_the_whole_vocabulary():
    target = torch.randint(0, 6, (1, 8))
    expected = fused_linear_logprob(HIDDEN, WEIGHT, target, backend="torch")
    got = FusedLinearChunkedDistributedLogprob.apply(HIDDEN, WEIGHT, target, 0, 6, None, None)
    assert torch.equal(got, expected)
    # Without a group, a start that is not 0 only renames the ids.
    renamed = FusedLinearChunkedDistributedLogprob.apply(
        HIDDEN, WEIGHT, target + 10, 10, 16, None, None
    )
    assert torch.equal(renamed, expected)
    shifted = from_parallel_hidden_to_logprobs(**{**PADDED, "target": target})
    again = fused_linear_logprob(HIDDEN, WEIGHT, target.roll(-1), backend="torch")
    assert torch.equal(shifted, again[:, :-1])


@pytest.mark.parametrize("length", [0, 1])
def test_rows_too_short_for_a_successor_have_no_values(length: int):
    change = {"hidden": HIDDEN[:, :length], "target": TARGET[:, :length], "return_entropy": True}
    logprob, entropy = from_parallel_hidden_to_logprobs(**{**PADDED, **change})
    assert logprob.shape == entropy.shape == (1, 0)


def test_results_may_be_changed_in_place():
    hidden = HIDDEN.clone().requires_grad_()
    arguments = {**PADDED, "hidden": hidden, "return_entropy": True, "entropy_requires_grad": True}
    packed = {k: v for k, v in arguments.items() if k != "tp_group"}
    packed |= {"cu_seqlens_padded": CU, "unpacked_seqlen": 4, "group": None}
    for values in (
        from_parallel_hidden_to_logprobs(**arguments),
        from_parallel_hidden_to_logprobs_packed_sequences(**packed),
    ):
        logprob, entropy = values
        logprob[:, 1] = 0.0
        entropy.mul_(2)
        (gradient,) = torch.autograd.grad(logprob.sum() + entropy.sum(), hidden)
        assert gradient.isfinite().all()


@given(lengths=st.lists(st.integers(0, 9), max_size=5))
def test_packed_without_cp_takes_any_lengths(lengths: list[int]):
    total = sum(lengths)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    assert segment_lengths(offsets, offsets.diff(), total, 1) == lengths
