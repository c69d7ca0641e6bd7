"""The learned detector's shipped model.

Fitted by ``holter fit --detector`` to 75 incidents of 76 labelled public training logs; for families that were left out
its episodes had F1 .66 there, where those of the rules have .94.
"""

from __future__ import annotations

from holter.pipeline.core.detect.learned import LearnedModel

SHIPPED = LearnedModel(
    bias=-6.29194,
    weights=(
        0.43409,  # loss score
        -0.37751,  # loss score, second of three
        0.03365,  # loss score, median of nine
        1.9751,  # loss rise, median of nine
        -1.48262,  # loss above its lowest level
        0.6218,  # loss score over its record
        4.30919,  # loss score over its record of pairs, second of three
        -0.10216,  # loss rise times score over its record
        3.28048,  # loss drift over its limit
        0.55468,  # loss is flat
        0.36678,  # gradient score
        0.26403,  # gradient score, second of three
        0.35922,  # gradient score over its record
        8.72551,  # not finite
        2.45741,  # share of high scores before
        6.67517,  # few records before
    ),
    threshold=3.5,
)
