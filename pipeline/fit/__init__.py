"""What finished incidents teach: the coefficients of P(recover), and which effects helped."""
