"""The names of a caller's choices, each list once: how heads are changed, measured, compared.

Imports nothing heavy, so that a page can check a link before torch is there.
"""

from typing import Literal, get_args

Device = Literal["auto", "cpu", "cuda", "mps"]
Method = Literal["ablation", "gradient"]  # by which a head's importance is found
Order = Literal["ablation", "gradient", "redundancy", "random"]  # in which heads are pruned

DEVICES: tuple[Device, ...] = get_args(Device)
METHODS: tuple[Method, ...] = get_args(Method)
ORDERS: tuple[Order, ...] = get_args(Order)
Dtype = Literal["float32", "bfloat16", "float16", "auto"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)  # of a model's weights while it runs
How = Literal["zero", "scale", "mean", "uniform", "patch_z", "patch_pattern"]
HOWS: tuple[How, ...] = get_args(How)  # see `Intervention`

MATRICES = ("W_Q", "W_K", "W_V", "W_O")
PRODUCTS = {"W_QK": ("W_Q", "W_K"), "W_OV": ("W_V", "W_O")}  # that a head acts by

DISTANCES = ("hellinger", "jensen_shannon")  # between the patterns of two heads
LIKENESS = ("correlation", "redundancy", "redundancy_textbook", "cka", "cka_biased")  # of their z
# measure between two heads -> what of the record it is made of
PAIR_MEASURES = dict.fromkeys(DISTANCES, "pattern") | dict.fromkeys(LIKENESS, "z")
MATCH_MEASURES = ("hellinger", "cka")  # by which heads of two models are matched
