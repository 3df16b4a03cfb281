// Package bucket stores checkpoints in buckets of object stores, and reads data from them. A
// program that imports it, if only for that,
//
//	import _ "github.com/paragon-train/paragon/checkpoint/bucket"
//
// opens these URLs wherever a checkpoint's place is named (checkpoint.OpenPlace, kvstore.Store.Save
// and Load, worker.CheckpointConfig), and where data is (package data):
//
//	s3://bucket/prefix?region=eu-central-1    Amazon S3, or with endpoint=...&use_path_style=true what speaks its protocol
//	gs://bucket/prefix                        Google Cloud Storage
//	azblob://container/prefix                 Azure Blob Storage; the account is AZURE_STORAGE_ACCOUNT
//	az://container/prefix                     the same, as is abfs://container@account.dfs.core.windows.net/prefix
//	mem://name/prefix                         memory of this process, for tests
//
// Credentials and further parameters are those of gocloud.dev/blob's drivers, which do the work:
// the environment, the usual files in the home folder, or the machine's own identity. All of these
// stores write objects atomically, so a file is complete or absent.
//
// A read of data asks for the version that was listed, by ETag or generation: an object that is
// replaced under a run is an error and never a mixture. Requests that fail are sent again, and a
// read goes on at the byte that it had reached; what no retry mends, such as a wrong credential, is
// said at once.
//
// The drivers' SDKs make a program larger by tens of megabytes: that is why this is a module of its
// own, which no other library package imports. With -tags s3only a program is built without gs://
// and azblob://, whose SDKs are the larger ones.
package bucket
