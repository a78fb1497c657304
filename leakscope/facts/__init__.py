"""What a recording says, one room a concept. A fact makes no finding: it is asked by diagnoses and by the report."""
