"""The source "scorer": the learned map of picture and question, in torch and without it."""
