"""`arr-coc batch` for folders of millions of pictures: local processes or Ray make the same rows, each written once."""
