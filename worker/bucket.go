package worker

import "slices"

// bucketBytes is the size of a bucket: half a millisecond of copying within a host, a thirtieth of
// a second on a link of 1 Gbit/s. Towards the end of a step smaller buckets are sent, of half of
// what is left and at least leastBytes, since the next step waits for the last gradients, those of
// the first layers. GPUs deliver gradients in portions of the same size.
const (
	bucketBytes = 4 << 20
	leastBytes  = bucketBytes / 8
)

// A bucket collects parameters until they are sent together.
type bucket struct {
	// params were added and not sent yet, and bytes is the size of their gradients.
	params []int
	bytes  int
	// rest is how many parameters are still to be added in this step, and coming the size of
	// their gradients. Both are 0 between two steps.
	rest, coming int
}

// add adds a parameter with a gradient of so many bytes, and reports whether the bucket is to be
// sent. A step has so many parameters with gradients of total bytes, each of which is added once.
func (b *bucket) add(i, bytes, params, total int) (full bool) {
	if b.rest == 0 {
		b.rest, b.coming = params, total
	}
	b.params = append(b.params, i)
	b.bytes += bytes
	b.coming -= bytes
	b.rest--
	return b.bytes >= bucketBytes || b.bytes >= max(leastBytes, b.coming) || b.rest == 0
}

// take empties the bucket, and returns what was in it in the order of the parameters: it is valid
// until the next add.
func (b *bucket) take() []int {
	slices.Sort(b.params)
	list := b.params
	b.params, b.bytes = b.params[:0], 0
	return list
}
