"""The source "look": three ways of knowing, balanced by three tensions into one map. Needs no training."""
