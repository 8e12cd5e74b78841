"""Per-token log-probabilities and entropy of a language-model head, without its logits."""
