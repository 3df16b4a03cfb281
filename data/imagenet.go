package data

// ImageNetMean and ImageNetStd are the mean and standard deviation of red, green and blue in
// ImageNet's training images, from 0 to 1, with which networks for photographs are usually trained.
var (
	ImageNetMean = []float32{0.485, 0.456, 0.406}
	ImageNetStd  = []float32{0.229, 0.224, 0.225}
)
