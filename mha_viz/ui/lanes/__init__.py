"""Who computes when: short work first, heavy work in a lane of its own, a fair turn for each."""
