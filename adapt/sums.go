package adapt

// Sums are parts of a State's.
type Sums struct{ Sqr, Var, Weight float64 }

// leastWeight is the share of the averages below which measurements are forgotten, before they
// underflow.
const leastWeight = 1e-9
