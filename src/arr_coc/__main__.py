"""`python -m arr_coc` is `arr-coc`."""

from .cli import main

if __name__ == "__main__":
    main()
