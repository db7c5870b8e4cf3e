"""Message passing: one factor for each datum, approximated in turn by minimising an α-divergence."""
