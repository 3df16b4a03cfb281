// Package digits draws a data set in the files of MNIST that a small network learns in seconds.
package digits

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Draw writes the idx files of n images, of which the names begin with prefix, "train" or "t10k":
// digit d is a bright bar in row 2d+4.
func Draw(dir, prefix string, n int) error {
	const side = 28
	random := rand.New(rand.NewPCG(uint64(n), 1))
	images := binary.BigEndian.AppendUint32(nil, 0x803)
	labels := binary.BigEndian.AppendUint32(nil, 0x801)
	for _, v := range []uint32{uint32(n), side, side} {
		images = binary.BigEndian.AppendUint32(images, v)
	}
	labels = binary.BigEndian.AppendUint32(labels, uint32(n))
	for range n {
		digit := random.IntN(10)
		labels = append(labels, byte(digit))
		for pixel := range side * side {
			value := random.IntN(60)
			if pixel/side == 2*digit+4 {
				value += 190
			}
			images = append(images, byte(value))
		}
	}
	for name, content := range map[string][]byte{"images-idx3-ubyte": images, "labels-idx1-ubyte": labels} {
		if err := os.WriteFile(filepath.Join(dir, prefix+"-"+name), content, 0o666); err != nil {
			return err
		}
	}
	return nil
}
