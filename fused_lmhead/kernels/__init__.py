"""Device code only: no allocation, no grid, no autograd.

Legend: M tokens, H hidden, V vocabulary; a tile is BLOCK_M tokens by BLOCK_N
vocabulary columns, its product runs over H in steps of BLOCK_K. Raw logits are
the fp32 accumulator before temperature; ``scale`` = log2(e) / temperature turns
differences of them into exponents of two. H and V are fixed by the model and so compiled
in; the token count is not.
"""
