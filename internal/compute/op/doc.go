// Package op holds Paragon's own operations on a gorgonia expression graph.
//
// An op is a node's label: a pointer to a struct whose exported fields are all
// its attributes (strides, paddings, rates). Together with the shapes of the
// node and of its children (graph.From, in argument order) they are all that an
// executor needs; no op keeps anything else, except the two with state,
// BatchNorm2D and Dropout, which name it in their State and Mode fields.
//
// Every op is a gorgonia.Op and a gorgonia.SDOp:
//
//   - Do is the plain loop of the formula in the type's comment, in float32 and
//     float64. It allocates its result, never returns memory of its inputs, and
//     is the reference that executors are tested against.
//   - InferShape gives the shape, and an error that names the op and the shapes
//     it got. Do checks with it again.
//   - SymDiff builds the gradients as further ops of this package. The gradient
//     ops cannot be differentiated again: their SymDiff is an error.
//   - String prints all attributes; WriteHash writes that string.
//
// Build nodes with Apply, not with gorgonia.ApplyOp. gorgonia identifies nodes
// by a 32-bit hash and compares two nodes of equal hash without looking at
// their children, so a collision would silently join two different nodes. Apply
// looks at the node it got back and refuses such a graph; CheckCollisions looks
// at a whole graph, gorgonia's own nodes included, before it is compiled.
//
// # Layout and types
//
// Images are (N, C, H, W), convolution weights (Out, In, KH, KW), linear weights
// (Out, In), everything row-major. Pairs such as Stride are {H, W}. In a type's
// comment the arguments are listed in order. A node's numbers are float32 or
// float64, the same for all of an op's float arguments; labels and ids may be
// int32, int64, int or a float type.
//
// # Several results
//
// BatchNorm2D, BatchNorm2DGrad and LinearGrad have several results: their value
// is a *Tuple, their node's shape is that of the first result, and a Take node
// picks one.
//
// # Training and evaluation
//
// One graph serves both. The Mode that stateful ops point to says which of the
// two Do computes; there is one Mode for a graph, in its Registry. Compiled
// executors do not read it: they have it in their own configuration and
// method, and take from the op only attributes and the initial state.
package op
