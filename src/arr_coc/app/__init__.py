"""The faces: command line, web page, server. Nothing below imports them."""
