package main

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push sends the image to its registry, then the bills, which refer to it. Who
// pushes is read from Docker's or podman's configuration.
func (i *image) push(tag name.Tag) error {
	auth := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	if err := remote.WriteIndex(tag, i.index, auth); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	for _, b := range i.boms {
		digest, err := b.artifact.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(tag.Digest(digest.String()), b.artifact, auth); err != nil {
			return fmt.Errorf("pushing the bill of materials of %s for %s: %w", tag, b.platform, err)
		}
	}
	return nil
}
