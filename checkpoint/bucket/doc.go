// Package bucket stores checkpoints in buckets of object stores. A program that imports it, if only for that,
//
//	import _ "github.com/paragon-train/paragon/checkpoint/bucket"
//
// opens these URLs wherever a checkpoint's place is named (checkpoint.OpenPlace, kvstore.Store.Save and Load,
// worker.CheckpointConfig):
//
//	s3://bucket/prefix?region=eu-central-1    Amazon S3, or with endpoint=...&use_path_style=true what speaks its protocol
//	gs://bucket/prefix                        Google Cloud Storage
//	azblob://container/prefix                 Azure Blob Storage; the account is AZURE_STORAGE_ACCOUNT
//	mem://name/prefix                         memory of this process, for tests
//
// Credentials and further parameters are those of gocloud.dev/blob's drivers, which do the work: the environment, the usual files in the home
// folder, or the machine's own identity. All of these stores write objects atomically, so a file is complete or absent.
//
// The drivers' SDKs make a program larger by tens of megabytes: that is why this is a module of its own, which no other
// library package imports. With -tags s3only a program is built without gs:// and azblob://, whose SDKs are the larger ones.
package bucket
