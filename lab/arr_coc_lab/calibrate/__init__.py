"""What `arr-coc calibrate` measures of a model: which heads point, and which letter heights it reads."""
