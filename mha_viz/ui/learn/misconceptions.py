"""What students, papers and tutorials do say, what is the case, and the lab that measures it."""

MISCONCEPTIONS = (
    (
        "The weights of a head explain the prediction.",
        "They say where the head looks. What it contributes is seen when it is switched off.",
        "statements",
    ),
    (
        "Without W_Q and W_K a token attends to itself.",
        "It does if its own dot product is the largest. A longer vector in a similar direction "
        "wins over it, and among real tokens there often is one.",
        "own-reflection",
    ),
    (
        "More heads are always better.",
        "Two heads can look at two places where one must choose. But at a given d_model each "
        "further head is narrower, and heads that are too narrow fail at what fewer can do.",
        "two-places",
    ),
    (
        "A pattern of rank n needs d_k = n.",
        "The width limits the rank of the scores, not that of the weights: with two dimensions "
        "every token can look at itself, as nearly as you like.",
        "any-pattern",
    ),
    (
        "Dividing by √d_k keeps scores between −1 and 1.",
        "It keeps their variance at 1 where queries and keys are independent and have variance 1. "
        "Single scores are larger, and trained heads make them as large as they need.",
        "soft-lookup",
    ),
    (
        "Attention can do all that a convolution does, so it is the better layer for pictures.",
        "It can, with k × k heads and relative positions, but it computes far more for the same "
        "output. Without positions it does not even know which pixels are neighbours.",
        "convolution",
    ),
    (
        "Each head of a layer works in a subspace of its own.",
        "Nothing in training keeps them apart. How far the subspaces overlap can be measured.",
        "statements",
    ),
    (
        "With more heads, attention takes more computation.",
        "With d_head = d_model / n_heads there are as many multiplications as before. What grows "
        "is the memory for the patterns, and the softmax over them.",
        "cost",
    ),
    (
        "A head that leads from “it” to the noun has understood what is meant.",
        "One line on one sentence shows little: count over many sentences, beside a step that is "
        "always the same and beside heads with random weights.",
        "what-heads-learn",
    ),
)
