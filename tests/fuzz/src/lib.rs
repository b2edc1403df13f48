//! Fuzz targets for everything that parses.
