"""The commands that the laboratory adds to `arr-coc`, one file each."""
