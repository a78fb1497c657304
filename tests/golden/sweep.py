def sweep(*a): raise SystemExit
