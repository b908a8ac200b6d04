"""Folders of millions: the same rows by processes of this machine or by Ray, each written once."""
