// Package nn defines networks and compiles them for a device.
//
// A model is a gorgonia expression graph. The functions here add layers to it:
// each takes a node and gives the node of its result, and panics with a message
// that starts with "nn:" if shapes do not fit, since that is a mistake in the
// program. Layers with parameters take a name; the parameters are leaves of the
// graph called name.weight and name.bias, as PyTorch calls them, and have their
// initial value from the start.
//
//	g := gorgonia.NewGraph()
//	images, labels := nn.Input(g, "images", 64, 3, 32, 32), nn.Labels(g, "labels", 64)
//	logits := nn.ResNet18(images, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR})
//	loss := nn.SoftmaxCrossEntropy(logits, labels)
//	prog, err := nn.Compile(loss, nn.Config{Device: "cpu:0"})
//
// gorgonia's own functions may be mixed in anywhere, and a graph built by them
// alone can be compiled too: every leaf with a value is then a parameter, except
// those that DeclareInput names. Compile replaces gorgonia's ops by ours where they
// mean the same, corrects wrong gradients, and refuses ops that it cannot handle;
// docs/design/measured/0026-gorgonia-ops.md has the table.
//
// # Shapes and types
//
// Images are (N, C, H, W). Sizes are static: a graph is for one batch size N, the first dimension
// of its inputs. A last, partial batch is padded, and Program.SetExamples says how many rows are
// examples: losses of this package and statistics of batch normalisations leave out the others,
// also from means, whatever they hold. SoftmaxCrossEntropy also leaves out rows with label −1, and
// SoftCrossEntropy and BinaryCrossEntropy rows whose targets are −1. Other losses average with
// ExampleWeights. Numbers are float32, labels and ids int32; Configure makes a float64 graph, for
// checks by finite differences.
//
// # Several batch sizes
//
// A graph of the same model for another batch size becomes a program that trains the same
// parameters with Config.Share:
//
//	build := func(batch int, first *nn.Program) (*nn.Program, error) { ...; return nn.Compile(loss, nn.Config{Share: first}) }
//	large, err := build(256, nil)
//	small, err := build(64, large)
//
// Programs that share have one set of parameters, gradients and running statistics, one count of
// steps and one gradient scale, so that a step on any of them goes on where the last one stopped,
// and is bit for bit the step of a program that is alone. (With Config.MomentumBatch running
// statistics reach back as many examples in all of them.) One of them runs at a time: the memory
// for what lies between operations is that of the largest. Program.Memory is what a program takes
// in addition. Inputs and SetExamples are each program's own: a batch between two sizes runs in the
// larger program with fewer examples. Programs may come later and larger; then the memory is made
// anew, and it is cheaper to compile the largest one first.
//
// # Initial values
//
// They come from the graph's seed (Configure) and the parameter's name alone, so
// that the order in which layers are made, or a layer more, changes no other
// parameter, and all workers of a job start from the same values.
//
// # Devices
//
// Programs run on CPUs ("cpu:0") and, where a driver and its libraries are found, on NVIDIA GPUs
// ("cuda:0"; Devices lists them, docs/design/0019-cuda.md says how). A graph, its values and all
// that a program shows are the same on both.
//
// # Training and evaluation
//
// One graph serves both: the executor that runs the graph tells batch
// normalisation and dropout which of the two it is.
package nn
