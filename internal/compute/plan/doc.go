// Package plan turns a gorgonia graph into a list of operations that an executor for some device
// can run: what is computed, in which order, in which layout and in which memory. It knows no
// device.
//
// Build lowers a graph in these passes, each in its own file:
//
//   - select (build.go): only nodes that the loss, a wanted gradient or a wanted output needs; in
//     the order in which they were made, which is the order of the model forward and of its layers
//     backward.
//   - lower (lower.go): each node becomes an Op of a Kind that executors know, with the op of
//     package op as its attributes; gorgonia's own ops become Generic ops, run by their Do, except
//     those that are recognised (recognise.go). Take and Reshape become other names of the same
//     memory. Images are channel-last (NHWC) between our ops and row-major (NCHW) elsewhere;
//     Convert ops convert between the two.
//   - fuse (fuse.go, tables.go): batch normalisation with the addition and ReLU that follow, their
//     gradients likewise; the gradients of a table that is looked up and multiplied by; a head and
//     its loss, forward and backward.
//   - order (order.go): gradients of parameters move up to where they can first be had; which op
//     reads a parameter first and after which one its gradient is ready.
//   - recompute (recompute.go): cheap results that only the backward pass would keep are made again
//     there.
//   - halve (bfloat16.go): in a plan that asks for it, images between ops are stored as bfloat16
//     where all ops that meet them can.
//   - place (memory.go): each value gets an offset in one arena, so that values share memory that
//     are not alive together, and elementwise ops write where they read. It is a step of its own
//     since an executor adds scratch memory first.
//
// An executor goes through Plan.Ops in order. Before op i the parameters Plan.FirstUse[i] must hold
// the values of this step; after op i the gradients of the parameters Plan.Ready[i] are final and
// neither they nor the values are read any more, so that the next values may come in while the rest
// of the backward pass goes on.
package plan
