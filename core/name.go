package core

import "regexp"

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?$`)
	nameLetter = regexp.MustCompile(`[a-z]`)
)

// CheckName refuses what is no name of a job.
func CheckName(field, name string) error {
	if !nameForm.MatchString(name) {
		return Invalid(field, name, "a name is 1 to 128 of a-z 0-9 . _ - and begins and ends with a letter or digit")
	}
	if !nameLetter.MatchString(name) {
		return Invalid(field, name, "a name needs a letter, so that it is not taken for a number")
	}
	return nil
}

var appForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// CheckAppName refuses what is no name of an app. Existing xxl-job executors
// register under names with capitals, so those are allowed here.
func CheckAppName(field, name string) error {
	if !appForm.MatchString(name) {
		return Invalid(field, name, "an app's name is 1 to 64 of a-z A-Z 0-9 . _ - and begins and ends with a letter or digit")
	}
	return nil
}
