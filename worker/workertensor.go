package worker

// workerTensor is one array of a worker's file, in the program's memory.
type workerTensor struct {
	name   string
	shape  []int
	values []float32
}

// metaRoundWeight has the weight of the examples of the round under way; none in files of version
// 0.1, whose weight was the number of examples.
const metaRoundWeight = "paragon.round_weight"
