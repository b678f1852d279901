package host

import (
	"errors"
	"os"
	"path/filepath"
)

// halfWritten is the name pattern of files until they are complete.
const halfWritten = "new-*"

// replaceFile replaces a file atomically: a crash leaves the old content or the new one at
// the path.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), halfWritten)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// removeHalfWritten removes the files of a folder that replaceFile did not finish.
func removeHalfWritten(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, halfWritten))
	errs := []error{err}
	for _, f := range files {
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}
