"""`python -m arr_coc` is `arr-coc`."""

from .app.cli import main

if __name__ == "__main__":
    main()
