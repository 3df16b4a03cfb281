// Package translate translates a user's graph for executors. It replaces gorgonia's own ops where
// an op of package op means the same and is faster, where gorgonia keeps state or draws random
// numbers that a program could neither save nor repeat, and where gorgonia's gradient is wrong. An
// op that can be neither kept nor replaced is an error that says what to use instead.
//
// A graph that needs none of it is its own translation. Else the translation is a second graph. Its
// leaves share values with the user's, so that a graph shows what was learned; its nodes are found
// by the user's (Graph.Node). All executors and the reference start from it, so that there is one
// place that knows gorgonia's ops.
//
// The rules are in a table by the type of an op (rules.go), which gorgonia does not export: a type
// is recognised by its name, and its attributes are read by reflection. A rule looks at a node and
// those below it and says of which nodes it makes what; the nodes in between are left out. Ops
// without a rule are applied again as they are.
package translate
