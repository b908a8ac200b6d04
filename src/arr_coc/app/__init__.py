"""What people run: command line, web page, server, batches, vLLM plugin. Nothing below imports it."""
