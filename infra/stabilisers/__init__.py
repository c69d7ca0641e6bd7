"""Every stabiliser in one toy setting, hurt in the same ways, beside what its authors claim."""
