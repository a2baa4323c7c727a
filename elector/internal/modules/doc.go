// Package modules tests what importing the library brings into other people's
// module graphs, and that a release can be installed. CONTRIBUTING.md has the list
// of the modules of this repository and the reasons.
package modules
