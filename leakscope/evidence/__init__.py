"""Facts put into sentences, for the diagnoses that share them."""
