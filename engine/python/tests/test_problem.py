"""Problems: what keywords mean, what keys say, what is refused."""

from __future__ import annotations

import pickle

import pytest
import tgemm

KEY = "gemm,m=4,n=1024,k=3072,x=bf16,w=bf16,out=bf16,compute=f32"


def test_a_plain_layer_is_its_sizes_and_its_type() -> None:
    problem = tgemm.Problem(4, 1024, 3072)
    assert problem.key == KEY == str(problem)
    assert tgemm.Problem.parse(KEY) == problem
    assert (problem.m, problem.n, problem.k, problem.dtype, problem.bias) == (4, 1024, 3072, "bf16", None)
    assert problem.with_m(5).m == 5 and problem.with_m(5) > problem and problem.with_m(4) == problem
    assert {problem: 1}[tgemm.Problem.parse(KEY)] == 1


@pytest.mark.parametrize("name", ["f16", "float16", "torch.float16", "dtypes.fp16"])
def test_an_element_type_has_several_names(name: str) -> None:
    assert tgemm.Problem(1, 2, 3, name).dtype == "f16"


def test_every_keyword_is_in_the_key() -> None:
    problem = tgemm.Problem(
        8, 64, 32, "f8e4m3fn", w_dtype="f8e5m2", out_dtype="f16", compute="tf32", bias="f32", scale="tensor",
        scale_dtype="ue8m0", activation="gelu", alpha="other", beta="1", in_place=False, fast_accumulation=True,
        preshuffled=True, trans="xw", ldx=40, ldw=65, ldo=70, batch_count=3, stride_x=1, stride_w=2, stride_out=9999,
        align=4,
    )  # fmt: skip
    assert problem.key == (
        "gemm,m=8,n=64,k=32,x=f8e4m3fn,w=f8e5m2,out=f16,compute=tf32,bias=f32,scale=tensor,scale_dtype=ue8m0,act=gelu,"
        "alpha=other,beta=1,in_place=0,fast=1,preshuffled=1,trans=xw,ldx=40,ldw=65,ldo=70,batch=3:1:2:9999,align=4"
    )
    assert tgemm.Problem.parse(problem.key) == problem == pickle.loads(pickle.dumps(problem))
    assert eval(repr(problem)) == problem


def test_what_means_nothing_is_not_said() -> None:
    assert tgemm.Problem(4, 1024, 3072, ldx=3072, ldw=3072, ldo=1024, stride_x=7, in_place=False).key == KEY


@pytest.mark.parametrize(
    ("arguments", "keywords", "said"),
    [
        ((0, 1, 1), {}, "M is 0"),
        ((1, 2**31, 1), {}, "N is 2147483648"),
        ((1, 1, 1, "bf17"), {}, "unknown element type 'bf17'"),
        ((1, 1, 1, None), {"bias": object()}, "unknown element type '<object"),
        ((1, 1, 1), {"activation": "tanh"}, "unknown activation 'tanh'"),
        ((1, 1, 8), {"ldw": 4}, "leading dimension of w is 4"),
        ((1, 1, 1), {"align": 3}, "unknown alignment '3'"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple, keywords: dict, said: str) -> None:
    with pytest.raises(tgemm.ProblemError, match=said) as raised:
        tgemm.Problem(*arguments, **keywords)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, tgemm.Error)


def test_numbers_and_words_of_other_kinds_are_pythons_own_errors() -> None:
    for wrong in ((-1, 1, 1), (2**64, 1, 1)):
        with pytest.raises(OverflowError):
            tgemm.Problem(*wrong)
    with pytest.raises(TypeError):
        tgemm.Problem("4", 1, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        tgemm.Problem(1, 1, 1, activation=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "gemm", "conv,m=1", KEY + ",n=4", KEY.replace("m=4", "m=x"), "x" * 5000, "\0"])
def test_texts_that_are_no_keys(key: str) -> None:
    with pytest.raises(tgemm.ProblemError):
        tgemm.Problem.parse(key)


def test_a_fused_layer_is_a_problem_without_a_gemms_fields() -> None:
    sizes = "moe,m=1,experts=8,topk=2,model_dim=4096,inter_dim=14336"
    fused = tgemm.Problem.parse(f"{sizes},x=bf16,q_x=-,q_w=-,quant=none,block=0x0,act=silu,gated=1,stage1=0")
    assert fused.m == 1 and fused.key.startswith(sizes)
    for field in ("n", "k", "dtype", "bias"):
        with pytest.raises(tgemm.ProblemError, match="only GEMMs have this field"):
            getattr(fused, field)
