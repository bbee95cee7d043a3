"""From row events to committed changes: conversion, order, lanes, progress."""
