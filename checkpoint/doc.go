// Package checkpoint keeps named tensors in safetensors files, which other
// tools read and write too.
//
// A file is, little-endian:
//
//	offset  size  field
//	     0     8  n, the length of the header
//	     8     n  header: a JSON object, then spaces up to a multiple of 8
//	   8+n        data
//
// The header maps each tensor's name to {"dtype":"F32","shape":[2,3],
// "data_offsets":[0,24]}, offsets from the start of the data, and may map
// "__metadata__" to an object of strings. Tensors follow one another
// without gaps, row-major; Write puts wider types first, so that each lies at
// a multiple of its own width.
//
// Write adds a string of its own, which other tools ignore: paragon.crc32c
// has the CRC-32C of the header, with these eight digits as zeros, and of each
// tensor in the order of the data, in hexadecimal with spaces between. Open
// compares the first, Verify and whatever reads a whole tensor the others. A
// tool that changes a file has to leave that string out.
//
// Save writes a file so that a crash leaves the old one or the new:
//
//	err := checkpoint.Save("model.safetensors", map[string]string{"step": "1000"},
//		[]checkpoint.Tensor{checkpoint.Float32s("fc.weight", []int{10, 512}, w)})
//
//	f, err := checkpoint.Open("model.safetensors")
//	defer f.Close()
//	err = f.ReadFloat32s("fc.weight", w)
//
// A job's checkpoint is a folder of such files, a Saved, with a Manifest that
// has their checksums. Export writes the model in one as a state dict that
// PyTorch loads, and Import reads such a file.
//
// Files may come from anyone: lengths are checked before memory is taken, and
// whatever is wrong is an error that names the file, the tensor and the bytes.
// A File may be read from several goroutines at once.
package checkpoint
