"""The source's texture array: forty channels, their mips, their semantic projection and superpixels, in torch."""
